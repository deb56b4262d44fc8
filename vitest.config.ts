import { configDefaults, defineConfig } from 'vitest/config'
import { LeftBehindReporter } from './test/support/left-behind-reporter.ts'
import { SummaryReporter } from './test/support/summary-reporter.ts'

/** Files of `npm test`: their tests leave no state behind, so a worker loads the sources once for all of them. */
const SHARED = ['test/**/!(*.full).test.ts']

/**
 * Files of the full suite that `npm run test:built` repeats on what `npm run build` compiles, beside every file of `npm test`
 * that starts the program. They load what those do not. The others test load, faults and time, which the form does not change.
 */
const BUILT = ['start-postgres', 'idle-memory', 'keys-whole-life', 'demo']

/**
 * `npm test` is to take under three minutes on two cores, so most files share a worker that has loaded the sources.
 * What needs clusters, browsers, Prometheus or minutes is `npm run test:full`.
 */
const LEFT_OUT: Readonly<Record<string, readonly string[]>> = {
  full: [],
  built: [`test/**/!(${BUILT.join('|')}).full.test.ts`],
}

export default defineConfig(({ mode }) => {
  // The Valkey that `.ci/run` installs speaks no TLS.
  const otherRedis = (process.env['POSTERN_TEST_REDIS'] ?? '') === '' ? [] : ['test/**/tls.test.ts']
  const left = [...configDefaults.exclude, ...otherRedis, ...(LEFT_OUT[mode] ?? ['test/**/*.full.test.ts'])]
  const env = {
    TEST_SUITE: mode === 'full' ? 'full' : 'fast',
    ...(mode === 'built' ? { TEST_FORM: 'built' } : {}),
  }
  return {
    test: {
      reporters: ['default', new LeftBehindReporter(), new SummaryReporter()],
      // The identity provider of the tests keeps its state in memory on purpose.
      onConsoleLog: log => !log.includes('oidc-provider WARNING'),
      globalSetup: ['test/support/global-setup.ts'],
      // On two cores: the fast suite waits as often as it computes, and tests of load must not disturb each other.
      maxWorkers: mode === 'full' ? 2 : 3,
      env,
      // No bound of the product: it ends a test that hangs, also on a machine with four times the work.
      testTimeout: 120_000,
      hookTimeout: 180_000,
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
