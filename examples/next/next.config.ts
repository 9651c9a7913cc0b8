import type { NextConfig } from "next";

const adkwire = process.env.ADKWIRE_URL ?? "http://127.0.0.1:8000";

const config: NextConfig = {
  // Sockets too. Next.js forwards with the Host of adkwire and the Origin of the page: a public page needs `--allow-origin`.
  rewrites: async () => [{ source: "/api/:path*", destination: `${adkwire}/api/:path*` }],
  turbopack: { root: import.meta.dirname },
};

export default config;
