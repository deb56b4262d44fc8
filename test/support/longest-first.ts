import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files that take some 25 seconds and more, the longest first. A file that begins last and lasts long leaves the other workers
 * idle, and what vitest remembers of earlier runs is missing in a fresh checkout.
 */
export const LONGEST = [
  'revocation/revocation.full',
  'kubernetes/kubernetes.full',
  'browser/every-page.full',
  'console/key-repository.full',
  'observability/live/dashboards.full',
  'outage/stores.full',
  'regions/regions.full',
  'console/database-copies.full',
  'blackbox/overload.full',
  'image/image.full',
  'docs/commands.full',
  'cli/doctor.full',
  'console/database-unavailable.full',
  'browser/watched-change.full',
  'redis/sentinel.full',
  'check/protocols.full',
  'redis/cluster.full',
  'console/event-loop.full',
  'check/proxies.full',
  'console/usage/usage.full',
  'console/poolers.full',
  'console/export-memory.full',
  'console/admin-schema.full',
  'byo/key-service.full',
  'console/postgres-failover.full',
  'process/rolling-restart.full',
  'blackbox/offers',
  'blackbox/client-connections',
  'revocation/confirmed',
  'console/announcing',
] as const

/** Keeps the order of vitest, with these files before the others of their project. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.findIndex(name => moduleId.endsWith(`/test/${name}.test.ts`))
      return place < 0 ? LONGEST.length : place
    }
    const sorted = await super.sort(files)
    const projects = [...new Set(sorted.map(({ project }) => project))]
    return projects.flatMap(project =>
      sorted.filter(file => file.project === project).sort((one, other) => placeOf(one) - placeOf(other)),
    )
  }
}
