import { expect, test } from 'vitest'
import { TokenCheck } from '../../../src/keys/reports/settings-checks.ts'
import { createMetrics } from '../../../src/observability/metrics/metrics.ts'
import { LogSpy } from '../../support/log-spy.ts'
import { metricValue } from '../../support/metric-value.ts'

test('a rejected token is logged once with what to do, counted, and forgotten once a token is accepted', async () => {
  const [log, metrics] = [new LogSpy(), createMetrics()]
  const check = new TokenCheck({ log, metrics })
  const rejected = () => metricValue(metrics.keyServiceTokenRejected)
  expect(check.state).toBe('unknown')
  // What stands before a key service says nothing of the token.
  check.observe(502)
  expect(check.state).toBe('unknown')
  for (const status of [401, 401, 503, 401]) check.observe(status)
  expect([check.state, await rejected(), log.lines.length]).toEqual(['rejected', 1, 1])
  expect(log.lines[0]?.fields).toMatchObject({ setting: 'keyService.token', advice: expect.any(String) })
  check.observe(404)
  expect([check.state, await rejected(), log.lines.length]).toEqual(['accepted', 0, 2])
})
