import { configDefaults, defineConfig } from 'vitest/config'
import { SkipReporter } from './test/support/skip-reporter.ts'

/** `npm test` takes under three minutes; what needs clusters, browsers, Prometheus or minutes is `npm run test:full`. */
export default defineConfig(({ mode }) => ({
  test: {
    reporters: ['default', new SkipReporter()],
    globalSetup: ['test/support/global-setup.ts'],
    include: ['test/**/*.test.ts'],
    exclude: mode === 'full' ? configDefaults.exclude : [...configDefaults.exclude, 'test/**/*.full.test.ts'],
    // Most of the suite runs real processes; two cores run two files at a time without disturbing each other.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
}))
