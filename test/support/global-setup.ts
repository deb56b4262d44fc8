import { ensure, has, OPTIONAL_TOOLS, REQUIRED_TOOLS } from './tools.ts'

/** Runs once before all suites: installs required tools, and names optional ones that are missing. */
export default function setup(): () => void {
  for (const tool of REQUIRED_TOOLS) ensure(tool)
  const missing = OPTIONAL_TOOLS.filter(tool => !has(tool))
  const names = missing
    .map(tool => `${tool.program} (${tool.otherwise ?? `Debian: ${tool.debianPackage}`})`)
    .join(', ')
  if (missing.length > 0 && process.env['CI'] === 'true') {
    throw new Error(`With CI=true no suite may be skipped, but these tools are missing: ${names}`)
  }
  return () => {
    if (missing.length > 0) process.stdout.write(`\nMissing tools, their suites are skipped: ${names}\n`)
  }
}
