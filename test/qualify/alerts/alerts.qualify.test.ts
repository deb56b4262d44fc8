import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { testRules } from '../../observability/promtool.ts'
import { has, PROMTOOL } from '../../support/tools.ts'

describe.skipIf(!has(PROMTOOL))('according to promtool', () => {
  test('over thirty days each request counts once against the budget', async () => {
    const file = fileURLToPath(new URL('objectives-over-weeks.test.yaml', import.meta.url))
    expect(await testRules(file)).toEqual({ ok: true, output: expect.stringContaining('SUCCESS') })
  })
})
