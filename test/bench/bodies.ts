import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Contestant, checkAnswer } from './contestants.ts'
import { markOf } from './goals.ts'
import { WORKSPACE } from './keys.ts'
import { medianOf, type Pace, ratiosOf, runRounds, type Samples } from './measure.ts'
import { HUGE } from './nginx.ts'
import { writePerformance } from './pages.ts'
import { commit, machine } from './results.ts'
import { median } from './statistics.ts'
import { goalsTable, table } from './tables.ts'
import type { BenchWorld } from './world.ts'

const GATEWAY = 'gateway'
const CADDY = 'Caddy'
const PATH = '/api/v1/workspaces/{workspaceId}'
/** Few, so that responses end within a turn. */
const CONNECTIONS = 4
const TO_CADDY_AT_MOST = 1.4

/** Processor time of a response of 8 MB, beside proxies that check no key. */
export async function measureBodies(
  world: BenchWorld,
  pace: Pace,
  tell: (text: string) => void,
): Promise<string> {
  const [key = ''] = await world.mint.mint(1)
  const contestant = (
    name: string,
    { pid, url }: { pid: number; url: string },
    path = `/huge/${WORKSPACE}`,
  ): Contestant => ({
    name,
    pid,
    url: url + path,
    headers: { Authorization: `Bearer ${key}` },
    expect: { status: 200, bytes: HUGE },
    connections: CONNECTIONS,
  })
  const route = { name: 'workspace', path: PATH, upstreamPath: '/huge/{workspaceId}' }
  const gateway = await world.startGateway('gateway', { POSTERN_ROUTES: JSON.stringify([route]) })
  const contestants = [
    contestant(GATEWAY, gateway, PATH.replace('{workspaceId}', WORKSPACE)),
    contestant(CADDY, await world.startCaddy(writeCaddyfile)),
    contestant('http-proxy-3', await world.startNode('http-proxy.ts', 'http-proxy-3')),
    contestant('reply-from', await world.startNode('reply-from.ts', 'reply-from')),
  ]
  for (const one of contestants) await checkAnswer(one)
  const text = describe(contestants, await runRounds(contestants, pace, tell), pace)
  writePerformance('bench-bodies', text)
  return text
}

/** Forwards as its documentation shows, with an access log as the gateway has one. @returns path of the configuration */
function writeCaddyfile(directory: string, ports: { own: number; upstream: number }): string {
  const file = join(directory, 'Caddyfile')
  writeFileSync(
    file,
    `{
	admin off
	auto_https off
}
http://127.0.0.1:${ports.own} {
	log {
		output file ${directory}/access.log
	}
	reverse_proxy 127.0.0.1:${ports.upstream}
}
`,
  )
  return file
}

function describe(contestants: readonly Contestant[], samples: Samples, pace: Pace): string {
  const rows = contestants.map(({ name }) => [
    name,
    medianOf(samples, name, 'cpuUs').toFixed(0),
    medianOf(samples, name, 'perSecond').toFixed(0),
    median(ratiosOf(samples, GATEWAY, name)).toFixed(2),
  ])
  const ratio = median(ratiosOf(samples, GATEWAY, CADDY))
  return [
    `\`npm run bench -- --bodies\`, ${new Date().toISOString().slice(0, 10)}, commit \`${commit()}\`, ${machine()}: ${pace.rounds} rounds of ${pace.seconds} s in turns on one core,`,
    `${CONNECTIONS} connections. The proxies check no key.`,
    '',
    table(['8 MB', 'µs of processor', 'responses/s', 'gateway : this'], rows),
    '',
    goalsTable([
      {
        name: 'gateway, 8 MB',
        to: 'Caddy, 8 MB',
        ratio,
        atMost: TO_CADDY_AT_MOST,
        mark: markOf(ratio, TO_CADDY_AT_MOST),
      },
    ]),
  ].join('\n')
}
