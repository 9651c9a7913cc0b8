import { type ReactElement, useSyncExternalStore } from "react";
import { Icon } from "../design/icon";
import { useStrings } from "../strings";
import { music } from "./music";
import "./music.css";

/** A button that names the track that plays and stops it; nothing while none plays. */
export function MusicControl(): ReactElement | null {
  const t = useStrings().browserTools;
  const track = useSyncExternalStore(music.subscribe, music.track);
  if (track === null) return null;
  return (
    <button type="button" className="music" onClick={music.stop} aria-label={t.stopMusic(track)}>
      <Icon name="note" /><span>{t.track(track)}</span><Icon name="stop" />
    </button>
  );
}
