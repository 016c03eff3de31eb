import type { Methods } from './rpc.ts';

type CornicheMethod = Extract<keyof Methods, `corniche_${string}`>;

/**
 * The `corniche_` methods for viem's `request`: `createClient({ rpcSchema: rpcSchema<CornicheRpcSchema>(), … })`.
 * Derived from the document that a node serves as `rpc_discover`.
 */
export type CornicheRpcSchema = {
  [M in CornicheMethod]: { Method: M; Parameters: Methods[M]['parameters']; ReturnType: Methods[M]['result'] };
}[CornicheMethod][];
