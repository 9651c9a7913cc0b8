import type { Connection } from "./connection";
import type { NewsItem } from "./news-item";

/** Who hears the news. */
export interface NewsReader {
  onConnection: (connection: Connection) => void;
  /** Null: whatever happened before is not told, so look for yourself. */
  onItem: (item: NewsItem | null) => void;
}
