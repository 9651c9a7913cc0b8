/** The tools of the demo agent that the browser executes, by name. What one throws is told to the model. */
export const browserTools = new Map<string, (input: unknown) => unknown>([
  ["get_timezone", getTimezone],
  ["get_location", getLocation],
  ["change_bgm", changeMusic],
]);

function getTimezone() {
  return { timezone: Intl.DateTimeFormat().resolvedOptions().timeZone, local_time: new Date().toString() };
}

async function getLocation() {
  const { coords } = await new Promise<GeolocationPosition>((resolve, reject) => {
    navigator.geolocation.getCurrentPosition(resolve, (error) => reject(new Error(error.message)));
  });
  return { latitude: coords.latitude, longitude: coords.longitude, accuracy: coords.accuracy };
}

function changeMusic(): never {
  throw new Error("This page has no music.");
}
