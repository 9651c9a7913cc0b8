import { Tooltip } from "radix-ui";
import type { ComponentProps, ReactElement } from "react";
import { Icon, type IconName } from "./icon";

interface IconButtonProps extends Omit<ComponentProps<"button">, "children" | "aria-label"> {
  icon: IconName;
  /** The accessible name; also shown beside the pointer. */
  label: string;
}

/** A button that shows an icon only. It needs a `Tooltip.Provider` around the page. */
export function IconButton({ icon, label, className = "", ...props }: IconButtonProps): ReactElement {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>
        <button type="button" className={`square ${className}`} aria-label={label} {...props}><Icon name={icon} /></button>
      </Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content className="tooltip" sideOffset={6} collisionPadding={8}>{label}</Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
