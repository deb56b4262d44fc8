import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const scriptOf = (name: string) => fileURLToPath(new URL(`programs/${name}`, import.meta.url))

const folders = new Map<string, string>()

/** Runs a script that builds programs once per machine, and prints their folder. @throws with what Go says */
function built(script: string): string {
  const folder = folders.get(script) ?? execFileSync(scriptOf(script), { encoding: 'utf8' }).trim()
  folders.set(script, folder)
  return folder
}

/**
 * Builds what is not built yet: Kubernetes, etcd, kwok (nodes without machines) and chart-testing, all from Go modules. Waits for a
 * build that `.ci/run` started.
 * @returns their folder
 * @throws with what Go says
 */
export function buildControlPlane(): string {
  return built('build.sh')
}

/**
 * Builds Helm 4 and consul-template if they are not built yet. The `helm` of the path is Helm 3.
 * @returns their folder
 * @throws with what Go says
 */
export function buildChartTools(): string {
  return built('tools.sh')
}

/** Path of a program of the control plane. */
export function programOf(name: string): string {
  return join(buildControlPlane(), name)
}

/** Folder of the stages that kwok's pods and nodes pass. */
export function kwokStages(): string {
  return join(buildControlPlane(), 'stage')
}
