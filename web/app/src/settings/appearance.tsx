import type { ReactElement } from "react";
import { preferences, usePreferences } from "../preferences/preferences";
import { Segments } from "../design/segments";
import { useStrings } from "../strings";

function segmentsOf<T extends string>(labels: Record<T, string>): { value: T; label: string }[] {
  return (Object.keys(labels) as T[]).map((value) => ({ value, label: labels[value] }));
}

/** The section about how the page looks and reads. */
export function Appearance(): ReactElement {
  const t = useStrings().settings;
  const { theme, density, language } = usePreferences();
  return (
    <>
      <Segments legend={t.theme} group="theme" segments={segmentsOf(t.themes)} value={theme}
        onChange={(value) => preferences.set("theme", value)} />
      <Segments legend={t.density} group="density" segments={segmentsOf(t.densities)} value={density}
        onChange={(value) => preferences.set("density", value)} />
      <Segments legend={t.language} group="language" segments={segmentsOf(t.languages)} value={language}
        onChange={(value) => preferences.set("language", value)} />
    </>
  );
}
