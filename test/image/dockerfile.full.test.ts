import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { V8_FLAGS } from '../support/start-arguments.ts'

const CHECKOUT = new URL('../../', import.meta.url)

interface Instruction {
  readonly name: string
  readonly words: string
}

function textOf(file: string): string {
  return readFileSync(new URL(file, CHECKOUT), 'utf8')
}

/** Stages of the Dockerfile with their instructions; the part before the first stage counts as one. */
const STAGES: readonly (readonly Instruction[])[] = stagesOf(textOf('Dockerfile'))

function stagesOf(text: string): Instruction[][] {
  const lines = text.replace(/\\\n/g, ' ').split('\n')
  const stages: Instruction[][] = [[]]
  for (const line of lines.filter(line => line.trim() !== '' && !line.startsWith('#'))) {
    const [name = '', ...words] = line.trim().split(/\s+/)
    if (name === 'FROM') stages.push([])
    stages.at(-1)?.push({ name, words: words.join(' ') })
  }
  return stages
}

const [args = [], build = [], image = []] = STAGES

function of(stage: readonly Instruction[], name: string): string[] {
  return stage.filter(instruction => instruction.name === name).map(({ words }) => words)
}

describe('the image', () => {
  it('is built in two stages, both with Node 24, the second without shell or package manager', () => {
    expect(STAGES).toHaveLength(3)
    expect(of(args, 'ARG')).toEqual([
      expect.stringMatching(/^BUILD_IMAGE=node:24-/),
      expect.stringMatching(/^RUNTIME_IMAGE=\S+\/distroless\/nodejs24-\S+:nonroot$/),
    ])
    expect(of(build, 'FROM')).toEqual([`\${BUILD_IMAGE} AS build`])
    expect(of(image, 'FROM')).toEqual([`\${RUNTIME_IMAGE}`])
    expect(of(image, 'RUN')).toEqual([])
  })

  it('runs as the user that the chart sets, never as root', () => {
    expect(of(image, 'USER')).toEqual(['65532:65532'])
  })

  it('starts the program directly, so that it receives signals, and takes the plane as its argument', () => {
    expect(of(image, 'ENTRYPOINT')).toEqual([
      `[${['/nodejs/bin/node', ...V8_FLAGS, '/app/dist/main.js'].map(word => `"${word}"`).join(', ')}]`,
    ])
    expect(of(image, 'CMD')).toEqual(['["--help"]'])
    expect(of(image, 'HEALTHCHECK')).toEqual(['NONE'])
  })

  it('contains the production packages of the lock file, and a list of them', () => {
    const runs = of(build, 'RUN').join('\n')
    expect(runs).toMatch(
      /"npm", "ci"[\s\S]*"npm", "run", "build"[\s\S]*npm sbom .*--omit=dev[\s\S]*"npm", "prune", "--omit=dev"/,
    )
    expect(of(image, 'COPY').join('\n')).toContain('/build/sbom.cdx.json')
  })

  it('has descriptive labels', () => {
    const labels = of(image, 'LABEL').join(' ')
    for (const name of ['title', 'description', 'licenses', 'version', 'revision']) {
      expect(labels).toMatch(new RegExp(`org\\.opencontainers\\.image\\.${name}="[^"]+"`))
    }
    const { version } = JSON.parse(textOf('package.json')) as { version: string }
    expect(of(image, 'ARG')).toContain(`VERSION=${version}`)
  })

  it('contains no secret in arguments or variables', () => {
    const names = [...of(build, 'ARG'), ...of(image, 'ARG'), ...of(image, 'ENV'), ...of(build, 'ENV')]
    expect(names.map(word => word.split('=')[0])).toEqual([
      'REVISION',
      'VERSION',
      'REVISION',
      'NODE_ENV',
      'POSTERN_CONSOLE_HOST',
    ])
  })

  it('exposes the ports of the planes and the ops port', () => {
    expect(of(image, 'EXPOSE')).toEqual(['8080 8081 8082 9090'])
  })
})

describe('the build', () => {
  const ignored = textOf('.dockerignore').split('\n')
  const allowed = ignored.filter(line => line.startsWith('!')).map(line => line.slice(1))
  const copied = [...build, ...image]
    .filter(({ name, words }) => name === 'COPY' && !words.startsWith('--from'))
    .flatMap(({ words }) => words.split(' ').slice(0, -1))

  it('copies files that exist and that .dockerignore allows', () => {
    expect(copied.length).toBeGreaterThan(5)
    for (const file of copied) {
      expect(existsSync(new URL(file, CHECKOUT)), file).toBe(true)
      expect(allowed).toContain(file)
    }
  })

  it('sees no other files of the checkout: no tests, history, databases or environment files', () => {
    expect(ignored).toContain('*')
    expect(allowed.filter(file => !copied.includes(file))).toEqual([])
    expect(readdirSync(CHECKOUT)).toContain('test')
    expect(allowed).not.toContain('test')
  })
})
