import { defineConfig } from 'vitest/config'

/**
 * The tests of a part that run the sources in their own process: a planted fault does not reach a gateway that a test
 * starts. Those of other folders would find more, and take hours.
 */
const FOLDERS: Readonly<Record<string, readonly string[]>> = {
  domain: ['domain', 'gateway', 'keys', 'linear'],
  keys: ['keys', 'redis'],
  gateway: ['gateway', 'http'],
  upstream: ['upstream'],
}
const folders = FOLDERS[process.env['MUTATED_PART'] ?? ''] ?? Object.keys(FOLDERS)

export default defineConfig({
  test: {
    include: folders.map(folder => `test/${folder}/**/!(*.full).test.ts`),
    env: { TEST_SUITE: 'fast' },
    testTimeout: 30_000,
    isolate: false,
  },
})
