import { Redis } from 'ioredis'
import { type Contestant, checkAnswer } from './contestants.ts'
import { WORKSPACE } from './keys.ts'
import { measureWarm, medianOf, type Pace, ratiosOf, runRounds } from './measure.ts'
import { SMALL } from './nginx.ts'
import { median } from './statistics.ts'
import type { BenchWorld } from './world.ts'

const UNLIMITED = 'without limits'
const THREE = 'plan of three policies'
const USED_UP = 'at a limit of the month, 429'
/** The rate at which a limit that is used up is measured, beside the highest. */
const BURST_PER_SECOND = 10_000

const MANY = 1_000_000_000
const PLANS = {
  three: {
    policies: [
      { name: 'second', per: 'key', requests: MANY, windowSeconds: 1 },
      { name: 'minute', per: 'workspace', requests: MANY, windowSeconds: 60 },
      { name: 'quota', per: 'workspace', requests: MANY, window: 'month' },
    ],
  },
  tiny: { policies: [{ name: 'tiny', per: 'key', requests: 1, window: 'month' }] },
}

/** Processor time of a gateway for requests of keys with and without limits, all in one process. */
export async function measureLimits(world: BenchWorld, pace: Pace): Promise<string> {
  const gateway = await world.startGateway('gateway', { POSTERN_LIMITS_PLANS: JSON.stringify(PLANS) })
  const contestant = async (name: string, plan: string | null, expect: Contestant['expect']) => {
    const [key = ''] = await world.mint.mint(1, plan)
    const url = `${gateway.url}/api/v1/workspaces/${WORKSPACE}`
    return { name, pid: gateway.pid, url, headers: { Authorization: `Bearer ${key}` }, expect }
  }
  const small = { status: 200, bytes: SMALL }
  const contestants: Contestant[] = [
    await contestant(UNLIMITED, null, small),
    await contestant(THREE, 'three', small),
  ]
  const refused = await contestant(USED_UP, 'tiny', { status: 429 })
  for (const one of contestants) await checkAnswer(one)
  await checkAnswer({ ...refused, expect: small })
  contestants.push(refused)
  const samples = await runRounds(contestants, pace, text => process.stderr.write(`\r\u001b[K${text}`))
  process.stderr.write('\n')
  const ratios = ratiosOf(samples, THREE, UNLIMITED).toSorted((a, b) => a - b)
  return [
    ...contestants.map(({ name }) => {
      const perSecond = medianOf(samples, name, 'perSecond').toFixed(0)
      return `${name}: ${medianOf(samples, name, 'cpuUs').toFixed(1)} µs a request, ${perSecond} requests/s`
    }),
    `${THREE} : ${UNLIMITED}: ${median(ratios).toFixed(2)} (${ratios[0]?.toFixed(2)} to ${ratios.at(-1)?.toFixed(2)})`,
    await measureBurst(world, refused),
  ].join('\n')
}

/** A burst at a limit that is used up, and what it costs Redis. */
async function measureBurst(world: BenchWorld, refused: Contestant): Promise<string> {
  const redis = new Redis({ port: world.redisPort, host: '127.0.0.1', disableClientInfo: true })
  const before = await countsIn(redis)
  const { perSecond, cpuUs, p99Us } = await measureWarm(refused, 5, BURST_PER_SECOND)
  const counts = (await countsIn(redis)) - before
  redis.disconnect()
  return `${perSecond.toFixed(0)} requests/s at the limit: ${cpuUs.toFixed(1)} µs a request, p99 ${(p99Us / 1000).toFixed(2)} ms, ${counts} counts in Redis`
}

async function countsIn(redis: Redis): Promise<number> {
  return Number(/cmdstat_incrby:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1])
}
