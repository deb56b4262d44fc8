import type { ConfigProblem } from './config-error.ts'
import type { Config } from './schema/schema.ts'

/** What runs in a process: it decides which settings are required. */
export type Plane = 'gateway' | 'console'

export type Listener = Plane | 'gateway.check' | 'console.internal' | 'ops'

export const LISTENERS: readonly Listener[] = [
  'gateway',
  'gateway.check',
  'console',
  'console.internal',
  'ops',
]

/** Port 0 is any free one. */
export function findSharedPort(
  [one, other]: readonly [Listener, Listener],
  config: Config,
  planes: readonly Plane[],
): ConfigProblem[] {
  const port = portOf(config, other)
  if (!listens(one, planes) || !listens(other, planes)) return []
  if (port === undefined || port === 0 || port !== portOf(config, one)) return []
  return [{ spelling: `${other}.port`, problem: `is ${port}, which ${one}.port already uses` }]
}

function portOf(config: Config, listener: Listener): number | undefined {
  if (listener === 'gateway.check') return config.gateway.check.port
  return listener === 'console.internal' ? config.console.internal.port : config[listener].port
}

function listens(listener: Listener, planes: readonly Plane[]): boolean {
  return listener === 'ops' || planes.some(plane => listener === plane || listener.startsWith(`${plane}.`))
}
