import { type RefObject, useCallback, useEffect, useRef, useState } from "react";

const NEAR_PX = 80;

interface StickToBottom {
  box: RefObject<HTMLDivElement | null>;
  content: RefObject<HTMLDivElement | null>;
  onScroll: () => void;
  /** True while the user has scrolled up, away from the end. */
  away: boolean;
  /** Keep the end in view from the next change on. */
  stick: () => void;
  /** Scroll to the end at once, and keep it in view. */
  jump: () => void;
}

/** Keep the end of the content in view while it grows, unless the user has scrolled up. */
export function useStickToBottom(): StickToBottom {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const sticking = useRef(true);
  const lastTop = useRef(0);
  const [away, setAway] = useState(false);
  const onScroll = useCallback(() => {
    const node = box.current;
    if (!node) return;
    const near = node.scrollHeight - node.scrollTop - node.clientHeight < NEAR_PX;
    // Only scrolling up lets go: the distance to the end also grows with the content.
    sticking.current = near || (sticking.current && node.scrollTop >= lastTop.current);
    lastTop.current = node.scrollTop;
    setAway(!sticking.current);
  }, []);
  const stick = useCallback(() => {
    sticking.current = true;
  }, []);
  const jump = useCallback(() => {
    sticking.current = true;
    setAway(false);
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, []);
  useEffect(() => {
    const follow = new ResizeObserver(() => {
      if (box.current && sticking.current) box.current.scrollTop = box.current.scrollHeight;
    });
    for (const node of [box.current, content.current]) if (node) follow.observe(node);
    return () => follow.disconnect();
  }, []);
  return { box, content, onScroll, away, stick, jump };
}
