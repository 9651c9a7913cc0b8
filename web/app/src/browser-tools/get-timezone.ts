const twoDigits = (value: number): string => String(value).padStart(2, "0");

function offsetOf(date: Date): string {
  const minutes = -date.getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? "-" : "+"}${twoDigits(Math.trunc(size / 60))}:${twoDigits(size % 60)}`;
}

function localTime(date: Date): string {
  const shifted = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, "2026-01-31T12:34:56".length) + offsetOf(date);
}

/** Return the browser's time zone and local time. */
export async function getTimezone(): Promise<{ timezone: string; local_time: string }> {
  return { timezone: Intl.DateTimeFormat().resolvedOptions().timeZone, local_time: localTime(new Date()) };
}
