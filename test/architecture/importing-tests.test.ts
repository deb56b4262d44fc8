import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { testsThatImport } from '../support/importing-tests.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))

test('what runs on Valkey is each test that starts a Redis, also by a helper, and no test that plays one', () => {
  const found = testsThatImport('test/support/redis-program.ts', 'test/**/!(*.full|*.qualify).test.ts')
  expect(found).toEqual(
    expect.arrayContaining([
      'test/redis/write-together.test.ts',
      'test/keys/tiers/redis-store.test.ts',
      'test/blackbox/paths.test.ts',
      'test/process/start.test.ts',
    ]),
  )
  expect(found).not.toContain('test/redis/refusals.test.ts')
  expect(found).not.toContain('test/domain/authorize.test.ts')
})

test('what searches longer at night is each test that says how often it runs, also by a contract', () => {
  const found = testsThatImport('test/support/runs.ts', 'test/**/!(*.qualify).test.ts')
  expect(found).toEqual(
    expect.arrayContaining([
      'test/blackbox/offers.test.ts',
      'test/console/search/key-search.full.test.ts',
      'test/keys/no-older-version.property.test.ts',
    ]),
  )
  expect(found).not.toContain('test/console/webhooks.test.ts')
})

test('no test but those of Compose and the bench names the program of Redis', () => {
  const names = globSync('test/**/*.ts', { cwd: CHECKOUT }).filter(file =>
    /['"]redis-server['"]/.test(readFileSync(`${CHECKOUT}${file}`, 'utf8').replace(/^import .*$/gm, '')),
  )
  expect(names.filter(file => !file.startsWith('test/bench/')).sort()).toEqual([
    'test/docs/compose.full.test.ts',
    'test/support/tools.ts',
  ])
})
