// The suite against the newest releases of both majors of `ai`, outside CI: node tests/conformance/latest.mjs [pytest options]
//
// Installs ai@^6 and ai@^7 side by side into a temporary folder, tells pytest by ADKWIRE_AI_VERSIONS which modules to use
// (`7.0.200=/tmp/.../ai-7.mjs,...`), and ends with pytest's own exit code. PYTHON names the interpreter (default: .venv).
// A failure here is news about a new release, not a defect of a commit.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const MAJORS = ["6", "7"];
const repository = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const folder = mkdtempSync(join(tmpdir(), "adkwire-latest-"));

function install() {
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const wanted = MAJORS.map((major) => `ai-${major}@npm:ai@^${major}`);
  execFileSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error", ...wanted], { cwd: folder, stdio: "inherit" });
}

/** A module that re-exports the package, since an import is resolved from the file it stands in. */
function entry(major) {
  const { version } = JSON.parse(readFileSync(join(folder, "node_modules", `ai-${major}`, "package.json"), "utf8"));
  const path = join(folder, `ai-${major}.mjs`);
  writeFileSync(path, `export * from "ai-${major}";\n`);
  return `${version}=${path}`;
}

function test(versions) {
  const own = join(repository, ".venv", "bin", "python");
  const python = process.env.PYTHON ?? (existsSync(own) ? own : "python3");
  const env = { ...process.env, ADKWIRE_AI_VERSIONS: versions };
  const names = ["harness", "gate_harness", "socket_harness", "conformance", "restart"];
  const files = names.map((name) => join("tests", "conformance", `test_${name}.py`));
  const options = process.argv.slice(2);
  return spawnSync(python, ["-m", "pytest", ...files, ...options], { cwd: repository, env, stdio: "inherit" }).status ?? 1;
}

try {
  install();
  const versions = MAJORS.map(entry).join(",");
  console.log(`newest: ${versions}`);
  process.exitCode = test(versions);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
