import { configDefaults, defineConfig } from 'vitest/config'
import { testsThatImport } from './test/support/importing-tests.ts'
import { LeftBehindReporter } from './test/support/left-behind-reporter.ts'
import { LongestFirst } from './test/support/longest-first.ts'
import { SummaryReporter } from './test/support/summary-reporter.ts'
import { HOOK_LIMIT_MS, TEST_LIMIT_MS } from './test/support/time-limits.ts'

/** Files of `npm test`. */
const FAST = 'test/**/!(*.full|*.qualify).test.ts'
const FULL = 'test/**/*.full.test.ts'
/** They measure memory or processor time of the process that runs them, which no other file may have used. */
const MEASURE_THEMSELVES = [
  'test/console/pages/large-workspace.full.test.ts',
  'test/regions/region-backlog.full.test.ts',
  'test/upstream/slow-readers.full.test.ts',
]
const QUALIFY = 'test/qualify/**/*.qualify.test.ts'
/** It alone knows which server the tests start. */
const REDIS_PROGRAM = 'test/support/redis-program.ts'
/** It says how often a random or exhaustive test runs. */
const RUNS = 'test/support/runs.ts'

/** Whether the sources start, load, run a key's whole life, use memory and end like what `npm run build` makes of them. */
const SOURCES = [
  'test/process/{start,loaded,end,heap-limit}.test.ts',
  'test/process/{start-postgres,idle-memory}.full.test.ts',
  'test/cli/keys-whole-life.full.test.ts',
  'test/blackbox/demo.full.test.ts',
]

/**
 * Fast files that start a Redis only because a gateway needs one. They are about bytes between client and gateway, and about how a
 * process starts, stops and uses memory, which is the same on any server.
 */
const OF_ANY_REDIS = [
  'bad-requests',
  'client-connections',
  'coalesced-requests',
  'framing',
  'headers',
  'log-forging',
  'offers',
  'paths',
  'queries',
]
  .map(name => `test/blackbox/${name}.test.ts`)
  .concat(['address-families', 'end', 'heap-limit'].map(name => `test/process/${name}.test.ts`))

/**
 * Helm, Kubernetes, Prometheus and the compiler are programs in Go, which collect garbage whenever their memory has doubled. Tests have
 * the memory, not the time.
 */
const COLLECT_LESS = { GOGC: '400', GOMEMLIMIT: '2GiB' }

/** On two cores: tests wait as often as they compute. Those of `qualify` measure. */
const MAX_WORKERS: Readonly<Record<string, number>> = { qualify: 1 }

interface Suite {
  /** Their tests leave no state behind, so a worker loads the sources once for all of them. */
  readonly shared: readonly string[]
  readonly alone: readonly string[]
}

/**
 * `npm test` is to take under three minutes on two cores. What needs clusters, browsers, Prometheus or minutes is
 * `npm run test:full`; what searches for an hour is `npm run qualify`.
 */
function suiteOf(mode: string): Suite {
  if (mode === 'full') return { shared: [FAST, FULL], alone: MEASURE_THEMSELVES }
  if (mode === 'redis') {
    const shared = testsThatImport(REDIS_PROGRAM, FAST).filter(file => !OF_ANY_REDIS.includes(file))
    return { shared, alone: [] }
  }
  if (mode === 'sources') return { shared: [], alone: SOURCES }
  if (mode === 'qualify') {
    const searching = testsThatImport(RUNS, 'test/**/!(*.qualify).test.ts')
    return { shared: [], alone: [QUALIFY, ...searching] }
  }
  return { shared: [FAST], alone: [] }
}

export default defineConfig(({ mode }) => {
  const { shared, alone } = suiteOf(mode)
  // The Valkey of `POSTERN_TEST_REDIS=valkey` does not encrypt.
  const encrypted = (process.env['POSTERN_TEST_REDIS'] ?? '') === '' ? [] : ['test/**/tls.test.ts']
  const exclude = [...configDefaults.exclude, ...encrypted]
  const env = {
    TEST_SUITE: mode === 'full' || mode === 'qualify' ? mode : 'fast',
    // What ships, and it starts with two thirds of the processor time.
    ...(mode === 'full' ? { TEST_FORM: 'built' } : {}),
    ...(mode === 'qualify' ? {} : COLLECT_LESS),
  }
  return {
    test: {
      reporters: ['default', new LeftBehindReporter(), new SummaryReporter()],
      // The identity provider of the tests keeps its state in memory on purpose.
      onConsoleLog: log => !log.includes('oidc-provider WARNING'),
      globalSetup: ['test/support/global-setup.ts'],
      setupFiles: ['test/support/no-empty-tables.ts', 'test/support/stream-buffers.ts'],
      maxWorkers: MAX_WORKERS[mode] ?? 3,
      sequence: { sequencer: LongestFirst },
      env,
      testTimeout: TEST_LIMIT_MS,
      hookTimeout: HOOK_LIMIT_MS,
      expect: { poll: { timeout: 60_000 } },
      projects: [
        {
          extends: true as const,
          test: {
            name: 'shared',
            isolate: false,
            include: [...shared],
            exclude: [...exclude, ...MEASURE_THEMSELVES],
          },
        },
        { extends: true as const, test: { name: 'alone', include: [...alone], exclude } },
      ].filter(({ test }) => test.include.length > 0),
    },
  }
})
