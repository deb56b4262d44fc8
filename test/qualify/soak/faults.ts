import { connect, type Socket } from 'node:net'
import type { World } from '../../support/world.ts'
import type { Mood, MoodyUpstream } from './moody-upstream.ts'

export interface Fault {
  readonly name: string
  strike(): Promise<void> | void
  heal(): Promise<void> | void
}

const HALF_OPEN = 100

/** Faults that occur one after the other under load. The gateway recovers from each without a restart. */
export function faultsOf(world: World, upstream: MoodyUpstream): Fault[] {
  const moods: Mood[] = ['slow', 'silent', 'resetting', 'cutting', 'garbage', 'failing']
  const nothing = () => {}
  const halfOpen: Socket[] = []
  const consolePid = world.console.process.child.pid ?? 0
  return [
    ...moods.map(mood => ({
      name: `upstream ${mood}`,
      strike: () => {
        upstream.mood = mood
      },
      heal: () => {
        upstream.mood = 'well'
      },
    })),
    { name: 'upstream away', strike: () => upstream.stop(), heal: () => upstream.comeBack() },
    { name: 'Redis frozen', strike: () => world.redis.freeze(), heal: () => world.redis.thaw() },
    { name: 'Redis gone, back empty', strike: () => world.redis.kill(), heal: () => world.redis.revive() },
    { name: 'Redis flushed', strike: () => void world.redis.admin.flushall(), heal: nothing },
    {
      name: 'subscription cut',
      strike: () => void world.redis.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub'),
      heal: nothing,
    },
    {
      name: 'console frozen',
      strike: () => void process.kill(consolePid, 'SIGSTOP'),
      heal: () => void process.kill(consolePid, 'SIGCONT'),
    },
    {
      name: 'half-open clients',
      strike: () => {
        const { hostname, port } = new URL(world.gateway.urls.gateway)
        for (let count = 0; count < HALF_OPEN; count++) {
          const socket = connect({ host: hostname, port: Number(port) })
          socket.on('error', nothing).write('GET /api/v1/auth HTTP/1.1\r\nHost: g')
          halfOpen.push(socket)
        }
      },
      heal: () => {
        for (const socket of halfOpen.splice(0)) socket.destroy()
      },
    },
  ]
}
