/**
 * Objects of several gateways in one namespace: what stands before `metadata` in the name of an object says of which.
 * Bundled for workerd.
 */
import {
  type CloudflareBindings,
  type MetadataNamespace,
  type MetadataStub,
  shardObject,
} from '../../src/runtime/cloudflare/bindings.ts';
import { SluiceMetadata } from '../../src/runtime/cloudflare/metadata-object.ts';

/** The objects of one gateway. */
export const namespaceOf = (namespace: MetadataNamespace, gateway: string): MetadataNamespace => ({
  idFromName: (name) => namespace.idFromName(`${gateway}/${name}`),
  get: (id) => namespace.get(id),
});

export class NamedMetadata extends SluiceMetadata {
  readonly #namespace: MetadataNamespace;
  protected readonly gatewayName: string;

  constructor(ctx: unknown, env: CloudflareBindings) {
    super(ctx, env);
    const { name } = (ctx as { readonly id: { readonly name: string } }).id;
    this.gatewayName = name.split('/')[0] as string;
    this.#namespace = namespaceOf(env.SLUICE, this.gatewayName);
  }

  protected override stub(shard: number): MetadataStub {
    return shardObject(this.#namespace, shard);
  }

  /** Tests run the workers themselves. */
  override async alarm(): Promise<void> {}
}
