import { type ReactElement, useSyncExternalStore } from "react";
import { Icon } from "../design/icon";
import { music } from "./music";

/** Which track plays, and the button that stops it. Without music there is nothing to see. */
export function MusicControl(): ReactElement | null {
  const track = useSyncExternalStore(music.subscribe, music.track);
  if (track === null) return null;
  return (
    <button type="button" className="music" onClick={music.stop} aria-label={`Track ${track} is playing. Stop the music`}>
      <Icon name="note" /><span>Track {track}</span><Icon name="stop" />
    </button>
  );
}
