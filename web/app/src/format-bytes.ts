const MEGABYTES = new Intl.NumberFormat("en", { style: "unit", unit: "megabyte", maximumSignificantDigits: 3 });

/** A size as a person reads it. */
export function formatBytes(bytes: number): string {
  return MEGABYTES.format(bytes / 1e6);
}
