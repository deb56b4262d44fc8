import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { PosternProcess } from '../support/postern-process.ts'

const CHECKOUT = fileURLToPath(new URL('../../', import.meta.url))
const SOURCES = [
  'package.json',
  '.npmrc',
  'tsconfig.json',
  'src',
  'config',
  'test/cli',
  'README.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'LICENSE',
]

let directory: string
/** Below this there is no checkout. */
let installed: string
let files: string[]

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'postern-package-'))
  const checkout = join(directory, 'checkout')
  for (const place of SOURCES) cpSync(join(CHECKOUT, place), join(checkout, place), { recursive: true })
  symlinkSync(join(CHECKOUT, 'node_modules'), join(checkout, 'node_modules'))
  const run = (...words: string[]) =>
    execFileSync(words[0] ?? '', words.slice(1), { cwd: checkout, encoding: 'utf8' })
  run('npm', 'pack', '--silent', '--pack-destination', directory)
  const { version } = JSON.parse(readFileSync(join(CHECKOUT, 'package.json'), 'utf8')) as { version: string }
  const tarball = join(directory, `postern-${version}.tgz`)
  files = run('tar', '--list', '--file', tarball).trim().split('\n')
  install(tarball)
}, 300_000)
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** As `npm install --global --prefix` does, with dependencies from this checkout: those that are for production alone. */
function install(tarball: string): void {
  installed = join(directory, 'prefix')
  const target = join(installed, 'lib/node_modules/postern')
  mkdirSync(target, { recursive: true })
  execFileSync('tar', ['--extract', '--strip-components=1', '--directory', target, '--file', tarball])
  const manifest = JSON.parse(readFileSync(join(target, 'package.json'), 'utf8')) as {
    bin: { postern: string }
    dependencies: Record<string, string>
  }
  for (const name of Object.keys(manifest.dependencies)) {
    const link = join(target, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(join(CHECKOUT, 'node_modules', name), link)
  }
  const program = join(target, manifest.bin.postern)
  chmodSync(program, 0o755)
  mkdirSync(join(installed, 'bin'))
  symlinkSync(program, join(installed, 'bin/postern'))
}

const launcher = () => [join(installed, 'bin/postern')]

test('the package holds the built program and its documents, and neither sources nor tests', () => {
  const folders = new Set(files.map(file => file.split('/')[1]))
  expect([...folders].sort()).toEqual([
    'CHANGELOG.md',
    'LICENSE',
    'README.md',
    'SECURITY.md',
    'config',
    'dist',
    'package.json',
  ])
  expect(files.filter(file => /\.ts$|\.map$|test/.test(file))).toEqual([])
})

test('every module of the package loads', () => {
  const root = join(installed, 'lib/node_modules/postern')
  const modules = files
    .map(file => file.replace(/^package\//, ''))
    .filter(file => /^dist\/(?!main\.js|.*\/assets\/).*\.js$/.test(file))
  expect(modules.length).toBeGreaterThan(50)
  const script = modules.map(file => `await import(${JSON.stringify(`./${file}`)})`).join('\n')
  execFileSync(process.execPath, ['--input-type=module', '--eval', script], { cwd: root })
})

test('an installed postern prints its version and its help', async () => {
  const version = await new PosternProcess(['--version'], {}, launcher()).exited
  expect(version).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+$/), stderr: '' })
  const help = await new PosternProcess(['keys', 'issue', '--help'], {}, launcher()).exited
  expect(help).toMatchObject({ code: 0, stderr: '' })
})

test('an installed postern runs the demo: a key works, and the console has its pages', async () => {
  const demo = new PosternProcess(['demo', '--gateway-port', '0', '--console-port', '0'], {}, launcher())
  onTestFinished(async () => void (await demo.stop()))
  const line = await demo.line(text => text.includes('/api/v1/auth') && text.includes('Bearer'))
  const [url = ''] = /http:\S+\/api\/v1\/auth/.exec(line) ?? []
  const [, key = ''] = /Bearer (wsk_\w+)/.exec(line) ?? []
  const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
  expect(answer.status).toBe(200)
  const { console } = await demo.logged(entry => entry['msg'] === 'listening')
  const page = await (await fetch(`${console}/sign-in`)).text()
  const [stylesheet] = /\/assets\/console\.\w+\.css/.exec(page) ?? []
  expect(stylesheet).toBeDefined()
  expect((await fetch(`${console}${stylesheet}`)).headers.get('content-type')).toContain('text/css')
})
