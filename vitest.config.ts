import { configDefaults, defineConfig } from 'vitest/config'
import { SkipReporter } from './test/support/skip-reporter.ts'

/** Files of `npm test`: their tests leave no state behind, so a worker loads the sources once for all of them. */
const SHARED = ['test/**/!(*.full).test.ts']

/** `npm test` is to take under three minutes (4.5 today); what needs clusters, browsers, Prometheus or minutes is `npm run test:full`. */
export default defineConfig(({ mode }) => {
  const left =
    mode === 'full' ? configDefaults.exclude : [...configDefaults.exclude, 'test/**/*.full.test.ts']
  return {
    test: {
      reporters: ['default', new SkipReporter()],
      globalSetup: ['test/support/global-setup.ts'],
      // Most of the suite runs real processes; two cores run two files at a time without disturbing each other.
      maxWorkers: 2,
      env: { TEST_SUITE: mode === 'full' ? 'full' : 'fast' },
      testTimeout: 30_000,
      hookTimeout: 60_000,
      projects: [
        { extends: true, test: { name: 'shared', isolate: false, include: SHARED, exclude: left } },
        {
          extends: true,
          test: { name: 'alone', include: ['test/**/*.test.ts'], exclude: [...left, ...SHARED] },
        },
      ],
    },
  }
})
