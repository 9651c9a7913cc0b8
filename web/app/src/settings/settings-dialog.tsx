import type { ReactElement } from "react";
import { IconButton } from "../design/icon-button";
import { Modal } from "../design/modal";
import { type Strings, useStrings } from "../strings";
import type { ServerInfo } from "../transport/server-info";
import { Appearance } from "./appearance";
import { StandingAnswers } from "./standing-answers";
import "./settings.css";

/** What the sections of the settings may need. */
export interface SettingsProps {
  /** The chat on the screen. */
  chatId: string;
  info: ServerInfo | null;
}

interface Section {
  id: string;
  title: (t: Strings) => string;
  Content: (props: SettingsProps) => ReactElement | null;
}

/** The sections, from top to bottom. A new one is a component in this folder and a row here. */
const SECTIONS: Section[] = [
  { id: "appearance", title: (t) => t.settings.appearance, Content: Appearance },
  { id: "standing-answers", title: (t) => t.settings.standingAnswers, Content: StandingAnswers },
];

/** The button in the header, and the dialog that it opens. */
export function SettingsDialog(props: SettingsProps): ReactElement {
  const t = useStrings();
  return (
    <Modal title={t.settings.title} className="settings"
      trigger={<IconButton className="quiet" icon="settings" label={t.settings.title} />}>
      {SECTIONS.map(({ id, title, Content }) => (
        <section key={id} aria-label={title(t)}>
          <h3>{title(t)}</h3>
          <Content {...props} />
        </section>
      ))}
    </Modal>
  );
}
