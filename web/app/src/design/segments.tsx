import type { ReactElement, ReactNode } from "react";

interface Segment<T extends string> {
  value: T;
  label: ReactNode;
  /** The accessible name, where it is not the label. */
  name?: string;
  describedBy?: string;
}

interface SegmentsProps<T extends string> {
  legend: string;
  /** Groups the radio buttons: one name on the whole page. */
  group: string;
  hideLegend?: boolean;
  segments: readonly Segment<T>[];
  value: T;
  onChange: (value: T) => void;
}

/** Radio buttons in one bar, for a choice among a few. */
export function Segments<T extends string>({
  legend, group, hideLegend = false, segments, value, onChange,
}: SegmentsProps<T>): ReactElement {
  return (
    <fieldset className="choice">
      <legend className={hideLegend ? "unseen" : ""}>{legend}</legend>
      <div className="segments">
        {segments.map((segment) => (
          <label key={segment.value}>
            <input type="radio" name={group} value={segment.value} checked={segment.value === value}
              aria-label={segment.name} aria-describedby={segment.describedBy} onChange={() => onChange(segment.value)} />
            <span>{segment.label}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}
