import { strings } from "../strings";

const OPTIONS: PositionOptions = { timeout: 20_000, maximumAge: 60_000 };

function failureText({ code, message }: GeolocationPositionError): string {
  const t = strings().browserTools;
  const texts = [message, t.locationRefused, t.locationUnknown, t.locationTimeout];
  return texts[code] ?? message;
}

interface Place {
  latitude: number;
  longitude: number;
  accuracy: number;
}

/** Return where the browser is. The browser itself asks the user for permission. */
export function getLocation(): Promise<Place> {
  return new Promise((resolve, reject) => {
    navigator.geolocation.getCurrentPosition(
      ({ coords: { latitude, longitude, accuracy } }) => resolve({ latitude, longitude, accuracy }),
      (error) => reject(new Error(failureText(error))),
      OPTIONS,
    );
  });
}
