import type { Command } from 'commander'
import type { Plane } from '../../config/rules.ts'
import { similarTo } from '../../config/similar-name.ts'

export const PLANES: readonly Plane[] = ['gateway', 'console']

/** The plane that a command names; an unknown one is an error of the command line. */
export function parsePlane(plane: string, self: Command): Plane {
  const known = PLANES.find(name => name === plane)
  if (known !== undefined) return known
  return self.error(`error: unknown plane ${plane}: it must be gateway or console${similarTo(plane, PLANES)}`)
}
