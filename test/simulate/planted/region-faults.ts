import type { PlantedFault } from './planted-fault.ts'

export const REGION_FAULTS: readonly PlantedFault[] = [
  {
    name: 'the heartbeats of each region look at the outbox of the first',
    mutations: [
      {
        file: 'console/announcing/regions.ts',
        from: '...list.map(region => startHeartbeats({ ...context, ...region }))',
        to: '...list.map(region => startHeartbeats({ ...context, ...region, repository: list[0]!.repository }))',
      },
    ],
  },
  {
    name: 'a change that was announced to one region is deleted for all',
    mutations: [
      {
        file: 'console/announcing/regions.ts',
        from: 'const repository = { ...regionRows.pendingIn(name), findByDigests: keys.findByDigests }',
        to: 'const repository: Region["repository"] = { ...regionRows.pendingIn(name), findByDigests: keys.findByDigests, deletePendingChanges: async changes => { for (const other of context.config.regions) await regionRows.pendingIn(other.name).deletePendingChanges(changes) } }',
      },
    ],
  },
  {
    name: 'a region that is added gets no earlier changes, and heartbeats do not wait for them',
    mutations: [
      {
        file: 'console/announcing/recovery.ts',
        from: 'while (!isStopped() && mark.verified === verified && (await repository.requeueNextKeys())) {}',
        to: '',
      },
      {
        file: 'console/announcing/heartbeats.ts',
        from: 'const pending = await repository.pendingSpan(verified.mark)\n  const isLate',
        to: 'const pending = await repository.pendingSpan(verified.mark).catch(() => null)\n  const isLate',
      },
    ],
  },
]
