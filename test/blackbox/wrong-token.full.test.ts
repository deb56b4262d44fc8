import { expect, test } from 'vitest'
import { startPostern } from '../support/postern-process.ts'
import { until } from '../support/until.ts'
import { startWorld } from '../support/world.ts'

async function readiness(ops: string | undefined): Promise<Record<string, unknown>> {
  const response = await fetch(`${ops}/readyz`)
  const details = (await response.json()) as Record<string, unknown>
  return { ...details, code: response.status }
}

test('a gateway whose key service rejects its token is never ready, and one that was ready stays so', async () => {
  const world = await startWorld()
  const stranger = await startPostern('gateway', {
    ...world.env,
    POSTERN_KEY_SERVICE_TOKEN: 'a-token-of-another-console',
  })
  try {
    // From the first answer on: a rollout asks as soon as the process listens.
    expect(await readiness(stranger.urls.ops)).toMatchObject({
      code: 503,
      status: 'misconfigured',
      keyService: 'rejected',
    })
    const metrics = await (await fetch(`${stranger.urls.ops}/metrics`)).text()
    expect(metrics).toContain('\npostern_key_service_token_rejected 1\n')
    await world.console.process.stop('SIGKILL')
    await until(
      'the gateway notices',
      async () => (await readiness(world.gateway.urls.ops))['changes'] !== 'connected',
    )
    expect(await readiness(world.gateway.urls.ops)).toMatchObject({ code: 200, status: 'ready' })
  } finally {
    await stranger.process.stop()
    await world.stop()
  }
})
