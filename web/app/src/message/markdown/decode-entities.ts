const ENTITY = /&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/gi;

const decoder = document.createElement("textarea");

/** Replace the character references of HTML, such as `&amp;`, which Markdown may contain. */
export function decodeEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(ENTITY, (entity) => {
    // One reference at a time: nothing else of the text is ever parsed as HTML.
    decoder.innerHTML = entity;
    return decoder.value;
  });
}
