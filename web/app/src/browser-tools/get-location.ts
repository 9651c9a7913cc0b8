const OPTIONS: PositionOptions = { timeout: 20_000, maximumAge: 60_000 };

const FAILURES: Record<number, string> = {
  1: "The browser did not allow it: access to the location was refused.",
  2: "The browser could not find out the location.",
  3: "The browser took too long to find out the location.",
};

interface Place {
  latitude: number;
  longitude: number;
  accuracy: number;
}

/** Where the browser is. The browser asks the person on its own account. */
export function getLocation(): Promise<Place> {
  return new Promise((resolve, reject) => {
    navigator.geolocation.getCurrentPosition(
      ({ coords: { latitude, longitude, accuracy } }) => resolve({ latitude, longitude, accuracy }),
      ({ code, message }) => reject(new Error(FAILURES[code] ?? message)),
      OPTIONS,
    );
  });
}
