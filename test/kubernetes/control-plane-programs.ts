import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const SCRIPT = fileURLToPath(new URL('programs/build.sh', import.meta.url))

let folder: string | undefined

/**
 * Builds what is not built yet: Kubernetes, etcd, kwok (nodes without machines) and chart-testing, all from Go modules. Waits for a
 * build that `.ci/run` started.
 * @returns their folder
 * @throws with what Go says
 */
export function buildControlPlane(): string {
  folder ??= execFileSync(SCRIPT, { encoding: 'utf8' }).trim()
  return folder
}

/** Path of a program of the control plane. */
export function programOf(name: string): string {
  return join(buildControlPlane(), name)
}

/** Folder of the stages that kwok's pods and nodes pass. */
export function kwokStages(): string {
  return join(buildControlPlane(), 'stage')
}
