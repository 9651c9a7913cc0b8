import type { MarkedToken, Token, Tokens } from "marked";
import { type CSSProperties, memo, type ReactElement, type ReactNode, useMemo, useRef } from "react";
import { useStrings } from "../../strings";
import { ExternalLink } from "../external-link";
import { CodeBlock } from "./code-block";
import { decodeEntities } from "./decode-entities";
import { type Block, type ParsedMarkdown, parseMarkdown } from "./parse-markdown";
import "./markdown.css";

/** Deeper nesting is shown as text: nobody reads it, and browsers fail at some thousands of levels. */
const DEEPEST = 30;

/** Images that are part of the text. Any other would make the browser send a request that the model wrote. */
const EMBEDDED_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,/;

interface Place {
  depth: number;
  /** The number of link definitions that are in effect: the same source may mean something else with them. */
  definitions: number;
}

interface TokenProps extends Place {
  token: Token;
}

function Nested({ tokens = [], depth, definitions }: Place & { tokens: Token[] | undefined }): ReactNode {
  return tokens.map((token, index) => (
    <MarkdownToken key={index} token={token} depth={depth + 1} definitions={definitions} />
  ));
}

function List({ list, ...place }: Place & { list: Tokens.List }): ReactElement {
  const items = list.items.map((item, index) => (
    <li key={index} className={item.task ? "task" : undefined} dir="auto"><Nested tokens={item.tokens} {...place} /></li>
  ));
  return list.ordered ? <ol start={Number(list.start)}>{items}</ol> : <ul>{items}</ul>;
}

function alignment(align: "center" | "left" | "right" | null): CSSProperties | undefined {
  return align ? { textAlign: align } : undefined;
}

function Table({ table, ...place }: Place & { table: Tokens.Table }): ReactElement {
  const cell = (Cell: "td" | "th", { tokens, align }: Tokens.TableCell, index: number): ReactElement => (
    <Cell key={index} style={alignment(align)}><Nested tokens={tokens} {...place} /></Cell>
  );
  return (
    <div className="table" tabIndex={0} role="group" aria-label={table.header.map(({ text }) => text).join(", ")}>
      <table>
        <thead><tr>{table.header.map((each, index) => cell("th", each, index))}</tr></thead>
        <tbody>{table.rows.map((row, index) => <tr key={index}>{row.map((each, column) => cell("td", each, column))}</tr>)}</tbody>
      </table>
    </div>
  );
}

function Checkbox({ checked }: { checked: boolean }): ReactElement {
  const t = useStrings().message;
  return <span className="checkbox" role="img" aria-label={checked ? t.taskDone : t.taskOpen} data-checked={checked} />;
}

function Picture({ image }: { image: Tokens.Image }): ReactElement {
  const t = useStrings().message;
  const text = decodeEntities(image.text);
  if (EMBEDDED_IMAGE.test(image.href)) return <img className="picture" src={image.href} alt={text || t.picture} />;
  return <ExternalLink url={decodeEntities(image.href)}>{t.imageNotLoaded(text || image.href)}</ExternalLink>;
}

function TokenView({ token: generic, ...place }: TokenProps): ReactNode {
  // Marked's own union has a catch-all member that hides the others.
  const token = generic as MarkedToken;
  if (place.depth > DEEPEST) return token.raw;
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "paragraph":
      return <p dir="auto"><Nested tokens={token.tokens} {...place} /></p>;
    case "heading":
      return <p className="heading" data-depth={token.depth} dir="auto"><Nested tokens={token.tokens} {...place} /></p>;
    case "code":
      return <CodeBlock code={token.text} language={token.lang ?? ""} />;
    case "blockquote":
      return <blockquote dir="auto"><Nested tokens={token.tokens} {...place} /></blockquote>;
    case "list":
      return <List list={token} {...place} />;
    case "table":
      return <Table table={token} {...place} />;
    case "hr":
      return <hr />;
    case "checkbox":
      return <Checkbox checked={token.checked} />;
    case "text":
      return token.tokens ? <Nested tokens={token.tokens} {...place} /> : decodeEntities(token.text);
    case "strong":
      return <strong><Nested tokens={token.tokens} {...place} /></strong>;
    case "em":
      return <em><Nested tokens={token.tokens} {...place} /></em>;
    case "del":
      return <del><Nested tokens={token.tokens} {...place} /></del>;
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "escape":
      return token.text;
    case "link":
      return <ExternalLink url={decodeEntities(token.href)}><Nested tokens={token.tokens} {...place} /></ExternalLink>;
    case "image":
      return <Picture image={token} />;
    case "html":
      return token.block ? <p>{token.text}</p> : token.text;
    default:
      return generic.raw;
  }
}

/**
 * A block or an inline piece of Markdown, rendered again only when its source changes. Only what is listed in `TokenView`
 * becomes an element; HTML and everything unknown is shown as the text that it is.
 */
const MarkdownToken = memo(TokenView, (before, after) =>
  before.token === after.token || (before.token.type === after.token.type && before.token.raw === after.token.raw &&
    before.depth === after.depth && before.definitions === after.definitions));

const HEADINGS = ["h2", "h3", "h4", "h5", "h6"] as const;

/** Return the level of each top-level heading, by offset: no level is skipped, whatever the model wrote. */
function headingLevels(blocks: Block[]): Map<number, number> {
  const levels = new Map<number, number>();
  let level = -1;
  for (const { offset, token } of blocks) {
    if (token.type !== "heading") continue;
    level = Math.min((token as Tokens.Heading).depth - 1, level + 1, HEADINGS.length - 1);
    levels.set(offset, level);
  }
  return levels;
}

interface BlockViewProps {
  token: Token;
  /** The index in `HEADINGS`, for a heading. */
  level: number | undefined;
  definitions: number;
}

/** A top-level block. */
const BlockView = memo(function BlockView({ token, level, definitions }: BlockViewProps): ReactNode {
  const Heading = level === undefined ? undefined : HEADINGS[level];
  if (!Heading) return <MarkdownToken token={token} depth={0} definitions={definitions} />;
  const { tokens, depth } = token as Tokens.Heading;
  return <Heading className="heading" data-depth={depth} dir="auto"><Nested tokens={tokens} depth={0} definitions={definitions} /></Heading>;
});

interface MarkdownProps {
  text: string;
  /** Whether more text is about to be appended. */
  streaming: boolean;
}

/** A text of the model as Markdown. It makes no request, and its links ask before they leave the page. */
export function Markdown({ text, streaming }: MarkdownProps): ReactElement {
  const previous = useRef<ParsedMarkdown>(undefined);
  const parsed = useMemo(() => parseMarkdown(text, streaming, previous.current), [text, streaming]);
  previous.current = parsed;
  const levels = headingLevels(parsed.blocks);
  return (
    <div className="text markdown" dir="auto">
      {parsed.blocks.map(({ offset, token }) => (
        <BlockView key={offset} token={token} level={levels.get(offset)} definitions={parsed.definitions} />
      ))}
    </div>
  );
}
