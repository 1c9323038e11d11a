import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // Real processes and servers: more files at once than processors only make each other wait.
    maxWorkers: 2,
  },
})
