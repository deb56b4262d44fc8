import { readFileSync } from 'node:fs'
import { matchesGlob } from 'node:path'
import { defineConfig, type Plugin } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { testsFor } from './choose-tests.ts'
import { ROOT, readEvents, readPlan } from './plan.ts'

/**
 * Text of a test of properties, of a contract with a database, or one that starts a server: with a fault it may wait for a deadline,
 * where a test of functions fails at once.
 */
const STARTS_SERVER = /\bstart[A-Z]\w*\(|\b[A-Z]\w+\.start\(|\bcreateServer\(|\bfc\.assert\(|\.contract\.ts'/

const { part, sources, mutants, alone, isFast, events } = readPlan()
const patterns = testsFor(part, Object.values(mutants)).map(pattern => `test/${pattern}`)

/** Those that an earlier process of this run has finished. */
const done =
  alone === null ? readEvents(events).flatMap(event => (event.kind === 'outside' ? event.file : [])) : []

/** Gives the tests the sources with all faults planted, each of them inactive. */
const faulty: Plugin = {
  name: 'faulty-sources',
  enforce: 'pre',
  load(id) {
    const path = sources[id.replace(ROOT, '')]
    return path === undefined ? null : readFileSync(path, 'utf8')
  },
}

class FastFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) =>
      patterns.findIndex(pattern => matchesGlob(moduleId.replace(ROOT, ''), pattern)) +
      (STARTS_SERVER.test(readFileSync(moduleId, 'utf8')) ? patterns.length : 0)
    return files.toSorted((a, b) => rank(a) - rank(b) || (a.moduleId < b.moduleId ? -1 : 1))
  }
}

export default defineConfig({
  plugins: [faulty],
  test: {
    // The cache knows the text of a source file, and not that this run replaces it.
    fsModuleCache: false,
    include: alone === null ? patterns : [`${alone}*.test.ts`],
    exclude: [...done, ...(isFast ? ['**/*.full.test.ts'] : [])],
    setupFiles: ['test/mutation/no-shrinking.ts'],
    // A planted fault is active in the process of the tests only, so gateways or the commands of the console run there.
    env: { TEST_SUITE: 'fast', TEST_FORM: part === 'console' ? 'console-here' : 'here' },
    runner: `${ROOT}test/mutation/fault-runner.ts`,
    sequence: { sequencer: FastFirst },
    // A mutant that is loaded with the sources is killed by them.
    testTimeout: alone === null ? 30_000 : 10_000,
    hookTimeout: alone === null ? 60_000 : 20_000,
    isolate: false,
    globals: alone !== null,
    // A fault that lets a list grow without end ends the process soon.
    execArgv: ['--max-old-space-size=1500'],
    maxWorkers: 1,
    watch: false,
  },
})
