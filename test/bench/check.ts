import { freePort } from '../support/free-port.ts'
import { type Contestant, checkAnswer } from './contestants.ts'
import { WORKSPACE } from './keys.ts'
import { medianOf, type Pace, ratiosOf, runRounds } from './measure.ts'
import { SMALL, writeCheckNginx, writePlainNginx } from './nginx.ts'
import { median } from './statistics.ts'
import type { BenchWorld } from './world.ts'

const CHECKED = 'nginx in check mode'

/** Processor time of nginx in check mode, with its gateway, beside two other ways to check keys behind nginx. */
export async function measureCheck(world: BenchWorld, pace: Pace, hasLua: boolean): Promise<string> {
  const [key = ''] = await world.mint.mint(1)
  const check = await freePort()
  const gateway = await world.startGateway('gateway', {
    POSTERN_GATEWAY_CHECK_HOST: '127.0.0.1',
    POSTERN_GATEWAY_CHECK_PORT: String(check),
    POSTERN_GATEWAY_CHECK_PROXY: 'nginx',
  })
  const upstream = world.upstream.port
  const asking = await world.startNginx('asking', (directory, own) =>
    writeCheckNginx(directory, { own, check, upstream }),
  )
  const forwarding = await world.startNginx('forwarding', (directory, own) =>
    writePlainNginx(directory, { own, gateway: gateway.port }),
  )
  const contestant = (
    name: string,
    server: { pid: number; url: string },
    besidePid?: number,
  ): Contestant => ({
    name,
    pid: server.pid,
    ...(besidePid === undefined ? {} : { besidePid }),
    url: `${server.url}/api/v1/workspaces/${WORKSPACE}`,
    headers: { Authorization: `Bearer ${key}` },
    expect: { status: 200, bytes: SMALL },
  })
  const contestants = [
    contestant(CHECKED, asking, gateway.pid),
    contestant('nginx in front of the gateway', forwarding, gateway.pid),
    contestant('gateway alone', gateway),
    ...(hasLua ? [contestant('nginx + Lua', await world.startLua())] : []),
  ]
  for (const one of contestants) await checkAnswer(one)
  const samples = await runRounds(contestants, pace, text => process.stderr.write(`\r\u001b[K${text}`))
  process.stderr.write('\n')
  return contestants
    .map(({ name }) => {
      const ratio = median(ratiosOf(samples, CHECKED, name)).toFixed(2)
      return `${name}: ${medianOf(samples, name, 'cpuUs').toFixed(1)} µs a request; check mode is ${ratio} of it`
    })
    .join('\n')
}
