import { Lexer, type Token, type TokensList } from "marked";
import remend from "remend";

/** A top-level block of Markdown. Its token stays the same object while text is appended behind it. */
export interface Block {
  /** Where it begins in the text. */
  offset: number;
  token: Token;
}

/** A text as blocks, with what is needed to go on when more of the text arrives. */
export interface ParsedMarkdown {
  blocks: Block[];
  /** The text up to the last block, which alone can still change. */
  settledText: string;
  settledBlocks: Block[];
  /** The link definitions that are known while the text streams. */
  links: TokensList["links"];
  /** The number of link definitions in the complete text; 0 while it streams. */
  definitions: number;
}

const NOTHING: ParsedMarkdown = { blocks: [], settledText: "", settledBlocks: [], links: {}, definitions: 0 };

/** A longer unfinished block is shown as it is: to repair it takes time with every piece that arrives. */
const LONGEST_REPAIR = 10_000;

function lex(text: string, links: TokensList["links"]): TokensList {
  const lexer = new Lexer({ gfm: true });
  Object.assign(lexer.tokens.links, links);
  try {
    return lexer.lex(text);
  } catch {
    // A text that nests too deeply for the parser is still a text.
    return Object.assign([{ type: "text", raw: text, text }], { links });
  }
}

function blocksFrom(offset: number, tokens: Token[]): Block[] {
  let end = offset;
  return tokens.map((token) => {
    end += token.raw.length;
    return { offset: end - token.raw.length, token };
  });
}

/** Return the last block with its open emphasis, code and links closed, so that they do not flicker as signs first. */
function repaired({ offset, token }: Block, links: TokensList["links"]): Block[] {
  if (token.raw.length > LONGEST_REPAIR) return [{ offset, token }];
  // Signs at the very end may be half of what comes: one `*` of two.
  const raw = token.raw.replace(/(?<![\\*_~`])[*_~`]+$/, "");
  return blocksFrom(offset, lex(remend(raw, { linkMode: "text-only", htmlTags: false, katex: false }), links));
}

/**
 * Parse Markdown. While it streams, pass the previous result: text that is appended changes the last block only, so only
 * that one is parsed again. Links that are defined below their use are resolved when the text is complete.
 */
export function parseMarkdown(source: string, streaming: boolean, previous: ParsedMarkdown = NOTHING): ParsedMarkdown {
  const text = source.includes("\r") ? source.replace(/\r\n?/g, "\n") : source;
  const { settledText, settledBlocks, links } = text.startsWith(previous.settledText) ? previous : NOTHING;
  const tokens = lex(text.slice(settledText.length), links);
  const definitions = Object.keys(tokens.links).length;
  if (!streaming && settledText && definitions > 0) return parseMarkdown(source, false);
  const blocks = [...settledBlocks, ...blocksFrom(settledText.length, tokens)];
  const last = blocks.findLastIndex(({ token }) => token.type !== "space");
  const open = blocks[last];
  if (!streaming || !open) return { ...NOTHING, blocks, definitions };
  const settled = blocks.slice(0, last);
  return {
    blocks: [...settled, ...repaired(open, tokens.links)],
    settledText: text.slice(0, open.offset),
    settledBlocks: settled,
    links: tokens.links,
    definitions: 0,
  };
}
