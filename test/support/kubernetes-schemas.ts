import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import type { Manifest } from './manifests.ts'
import { pythonEnvironment } from './python-environment.ts'

/** Custom resources of operators, whose schemas the package does not have. */
export const FOREIGN_KINDS = [
  'PodMonitor',
  'ServiceMonitor',
  'PrometheusRule',
  'HTTPRoute',
  'GrafanaDashboard',
  'ExternalSecret',
  'ScaledObject',
]

const PROGRAM = `
import json, sys
import kubernetes_validate as kv
asked = json.load(sys.stdin)
wrong = []
for name, object in asked["objects"]:
    try:
        kv.validate(object, asked["version"], strict=True)
    except Exception as error:
        wrong.append(f"{name}: {object['kind']} {object['metadata']['name']}: {error.message} {list(getattr(error, 'path', []))}")
print(json.dumps(wrong))
`

/**
 * Errors that a Kubernetes API server of that version would report for the objects, unknown fields included.
 * @param renderings objects by the name of what renders them, all for one start of Python
 */
export function schemaMistakes(
  renderings: Readonly<Record<string, readonly Manifest[]>>,
  version: string,
): string[] {
  const own = Object.entries(renderings).flatMap(([name, objects]) =>
    objects.filter(({ kind }) => !FOREIGN_KINDS.includes(String(kind))).map(object => [name, object]),
  )
  const { status, stdout, stderr } = spawnSync(
    join(pythonEnvironment('kubernetesSchemas'), 'python3'),
    ['-c', PROGRAM],
    {
      input: JSON.stringify({ objects: own, version }),
      encoding: 'utf8',
    },
  )
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as string[]
}

/** Takes a minute, once per machine. */
export function installSchemas(): void {
  pythonEnvironment('kubernetesSchemas')
}
