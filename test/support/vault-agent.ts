import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { at, listAt, type Manifest, valueAt } from './manifests.ts'
import { portOf } from './port-of.ts'

const ANNOTATION = 'vault.hashicorp.com/'
const VOLUME = 'vault-secrets'
const MOUNT = '/vault/secrets'

export interface InjectedPod {
  /** The pod with the volume that the agent shares with its containers. */
  readonly pod: Manifest
  /** Template of each file in that volume. */
  readonly templates: ReadonlyMap<string, string>
}

/**
 * What the webhook of Vault's agent injector makes of a pod, as its documentation says and its sources do; the webhook itself does
 * not run here.
 * @throws where the webhook refuses the pod
 */
export function injectAgent(pod: Manifest): InjectedPod {
  const annotations = at(pod, 'metadata.annotations')
  const named = (kind: string) =>
    Object.entries(annotations).flatMap(([name, value]) =>
      name.startsWith(`${ANNOTATION}${kind}-`)
        ? [[name.slice(`${ANNOTATION}${kind}-`.length), String(value)] as const]
        : [],
    )
  if (annotations[`${ANNOTATION}agent-inject`] !== 'true')
    throw new Error('The pod does not ask for an agent')
  if (annotations[`${ANNOTATION}role`] === undefined) throw new Error('no Vault role found')
  findToken(pod, annotations[`${ANNOTATION}agent-service-account-token-volume-name`])
  const own = new Map(named('agent-inject-template'))
  const templates = named('agent-inject-secret').map(
    ([file, path]) => [file, own.get(file) ?? templateOf(path)] as const,
  )
  const [container, ...others] = listAt(pod, 'spec.containers')
  const mounts = [...listAt(container, 'volumeMounts'), { name: VOLUME, mountPath: MOUNT }]
  const spec = {
    ...at(pod, 'spec'),
    containers: [{ ...container, volumeMounts: mounts }, ...others],
    volumes: [...listAt(pod, 'spec.volumes'), { name: VOLUME, emptyDir: { medium: 'Memory' } }],
  }
  return { pod: { ...pod, spec }, templates: new Map(templates) }
}

/** The token with which the agent signs in. @throws if the pod has none */
function findToken(pod: Manifest, volumeName: unknown): void {
  if (volumeName !== undefined) {
    const volume = listAt(pod, 'spec.volumes').find(({ name }) => name === volumeName)
    if (listAt(volume, 'projected.sources').some(source => 'serviceAccountToken' in source)) return
    throw new Error(`failed to find service account volume "${String(volumeName)}"`)
  }
  // The API server mounts the token of the service account unless the pod forbids it.
  if (valueAt(pod, 'spec.automountServiceAccountToken') === false) {
    throw new Error('failed to find service account volume mount')
  }
}

/** The template of a file that has none of its own. */
function templateOf(path: string): string {
  return `{{ with secret "${path}" }}{{ range $k, $v := .Data }}{{ $k }}: {{ $v }}\n{{ end }}{{ end }}`
}

/**
 * Files that the agent writes for templates, in a volume by its name: rendered by the program whose templates the agent uses, with the
 * answers of a KV engine of version 2 at `edge/`.
 * @param program path of consul-template
 */
export async function filesOfAgent(
  program: string,
  templates: ReadonlyMap<string, string>,
  secret: Readonly<Record<string, string>>,
): Promise<Record<string, ReadonlyMap<string, string>>> {
  const vault = createServer((request, response) => {
    const answer = answerOf(request.url ?? '', secret)
    response.writeHead(answer === null ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer ?? { errors: [] }))
  })
  await once(vault.listen(0, '127.0.0.1'), 'listening')
  const port = portOf(vault)
  const directory = mkdtempSync(join(tmpdir(), 'postern-vault-'))
  try {
    const files = [...templates].map(([file, contents]) => ({ contents, destination: join(directory, file) }))
    const config = `${directory}.json`
    const access = { address: `http://127.0.0.1:${port}`, token: 'root', renew_token: false }
    writeFileSync(config, JSON.stringify({ vault: access, template: files }))
    await promisify(execFile)(program, ['-once', '-config', config], { timeout: 30_000 })
    rmSync(config)
    const written = readdirSync(directory).map(
      file => [file, readFileSync(join(directory, file), 'utf8')] as const,
    )
    return { [VOLUME]: new Map(written) }
  } finally {
    rmSync(directory, { recursive: true, force: true })
    vault.close()
  }
}

function answerOf(url: string, secret: Readonly<Record<string, string>>): object | null {
  const path = url.split('?')[0]
  if (path === '/v1/edge/data/postern') {
    return { data: { data: secret, metadata: { version: 3, destroyed: false } }, lease_duration: 0 }
  }
  if (path?.startsWith('/v1/sys/internal/ui/mounts/edge/') === true) {
    return { data: { path: 'edge/', type: 'kv', options: { version: '2' } } }
  }
  return null
}
