import { defineConfig } from 'vitest/config'
import { SkipReporter } from './test/support/skip-reporter.ts'

export default defineConfig({
  test: {
    reporters: ['default', new SkipReporter()],
    globalSetup: ['test/support/global-setup.ts'],
    include: ['test/**/*.test.ts'],
    // Most of the suite runs real processes; two cores run two files at a time without disturbing each other.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
