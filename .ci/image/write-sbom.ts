// Completes the list of packages that `npm sbom` prints (CycloneDX, on standard input) with Node and the Debian packages of
// the image, and takes out what differs between two builds of one commit.
// Usage: npm sbom --sbom-format=cyclonedx | node write-sbom.ts IMAGE_ROOT > sbom.cdx.json
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'

interface Component {
  readonly 'bom-ref': string
  readonly type: string
  readonly name: string
  readonly version: string
  readonly purl?: string
  readonly cpe?: string
  readonly components?: readonly Component[]
}
interface Sbom {
  readonly metadata: { readonly component: object; readonly tools: unknown }
  readonly components: readonly Component[]
}

/** Interfaces and data of Node, which are no components. */
const NOT_COMPONENTS = ['node', 'modules', 'napi', 'unicode', 'tz', 'cldr']
const [imageRoot] = process.argv.slice(2)
if (imageRoot === undefined) throw new Error('Usage: node write-sbom.ts IMAGE_ROOT < npm-sbom.json')

// `npm sbom` declares this shape: https://cyclonedx.org/docs/1.5/json/
const npm = JSON.parse(await text(process.stdin)) as Sbom
const { component, tools } = npm.metadata
const os = fieldsOf(readFileSync(join(imageRoot, 'usr/lib/os-release'), 'utf8'), '=')
const sbom = {
  ...npm,
  metadata: { tools, component: { ...component, name: 'postern', type: 'application' } },
  components: [...npm.components, nodeComponent(), ...osComponents()],
}
const digest = createHash('sha256')
  .update(JSON.stringify({ ...sbom, serialNumber: '' }))
  .digest('hex')
process.stdout.write(`${JSON.stringify({ ...sbom, serialNumber: `urn:uuid:${uuidOf(digest)}` }, null, 1)}\n`)

/** Node, with the libraries that it is linked with. */
function nodeComponent(): Component {
  const { node, ...versions } = process.versions
  const bundled = Object.entries(versions)
    .filter(([name]) => !NOT_COMPONENTS.includes(name))
    .map(([name, version = '']) => ({
      ...generic('library', name, version),
      'bom-ref': `node/${name}@${version}`,
    }))
  const cpe = `cpe:2.3:a:nodejs:node.js:${node}:*:*:*:*:*:*:*`
  return { ...generic('platform', 'node', node), cpe, components: bundled }
}

function generic(type: string, name: string, version: string): Component {
  return {
    'bom-ref': `${name}@${version}`,
    type,
    name,
    version,
    purl: `pkg:generic/${name}@${encodeURIComponent(version)}`,
  }
}

/** Debian and its packages, from the files in which an image without dpkg keeps their control data. */
function osComponents(): Component[] {
  const directory = join(imageRoot ?? '', 'var/lib/dpkg/status.d')
  const packages = readdirSync(directory)
    .filter(file => !file.endsWith('.md5sums'))
    .sort()
    .map(file => debianComponent(fieldsOf(readFileSync(join(directory, file), 'utf8'), ':')))
  if (packages.length === 0)
    throw new Error(`No Debian package in ${directory}: the SBOM would be incomplete`)
  const version = os.get('VERSION_ID') ?? ''
  return [{ 'bom-ref': `debian@${version}`, type: 'operating-system', name: 'debian', version }, ...packages]
}

function debianComponent(fields: ReadonlyMap<string, string>): Component {
  const [name = '', version = '', arch = ''] = ['Package', 'Version', 'Architecture'].map(key =>
    fields.get(key),
  )
  const query = `arch=${arch}&distro=debian-${os.get('VERSION_ID')}`
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?${query}`
  return { 'bom-ref': purl, type: 'library', name, version, purl }
}

/** `NAME=value` of os-release, or `Name: value` of a Debian control file; continuation lines start with a space. */
function fieldsOf(content: string, separator: string): ReadonlyMap<string, string> {
  const lines = content.split('\n').filter(line => /^[A-Za-z]/.test(line) && line.includes(separator))
  return new Map(
    lines.map(line => {
      const at = line.indexOf(separator)
      return [
        line.slice(0, at),
        line
          .slice(at + 1)
          .trim()
          .replace(/^"|"$/g, ''),
      ]
    }),
  )
}

/** A UUID of version 8, whose content its maker chooses (RFC 9562, section 5.8). */
function uuidOf(hex: string): string {
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ]
  return parts.join('-')
}
