import { useEffect } from "react";
import { news } from "./news";
import type { NewsItem } from "./news-item";

/** Hears what happens in the person's chats; null when something may have been missed. `listener` must be stable. */
export function useNews(listener: (item: NewsItem | null) => void): void {
  useEffect(() => news.listen(listener), [listener]);
}
