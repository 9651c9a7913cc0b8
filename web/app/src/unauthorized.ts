/** Fired on `window` when the server asks who we are. */
export const UNAUTHORIZED = "adkwire:unauthorized";
