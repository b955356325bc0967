import { defineConfig } from "vitest/config";

const path = (name: string) => new URL(name, import.meta.url).pathname;

export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  resolve: {
    alias: {
      "forumd-client": path("../clients/typescript/src/client.ts"),
      // What verifies in verify.html verifies here: one implementation.
      "verify-page": path("../src/forum/features/evidence/verify_page"),
      // virtua is written for React.
      react: "preact/compat",
      "react-dom": "preact/compat",
      "react/jsx-runtime": "preact/jsx-runtime",
    },
  },
  build: {
    outDir: path("../src/forum/features/dashboard/ui"),
    emptyOutDir: true,
    target: "es2022",
    // The policy of the pages allows no inline script and no `data:` address.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8808", "/tlog": "http://127.0.0.1:8808" } },
  test: { include: ["test/**/*.test.ts"] },
});
