// Gives the models that Verilator makes one C interface. See model.rs for the meaning of the fields.
#include "Vaom_hm.h"
#include "Vaom_pk.h"
#include "Vecdsa_online.h"
#include <cstdint>
#include <cstring>
#include <memory>

struct Inputs {
    uint64_t in_data;
    uint32_t cfg_data[8], push_r[8], push_k_inverse[8];
    uint8_t rst, in_valid, in_last, in_bytes, in_flush, cfg_valid, cfg_slot, cfg_field, cfg_receiver, push_valid, out_ready;
};

struct Outputs {
    uint64_t out_data;
    uint8_t in_ready, cfg_ready, push_ready, stock, drop_valid, drop_reason, out_valid, out_last, out_bytes;
};

template <class M> struct Model {
    VerilatedContext context;
    std::unique_ptr<M> top;
    explicit Model(int seed) {
        // Registers begin with random values, so a missing reset shows.
        context.randReset(2);
        context.randSeed(seed);
        top.reset(new M(&context));
    }
};

template <class W> static void wide(W& port, const uint32_t* words) {
    for (int i = 0; i < 8; i++) port[i] = words[i];
}

static void set(Vaom_hm& top, const Inputs& in) { top.cfg_receiver = in.cfg_receiver; }

static void set(Vaom_pk& top, const Inputs& in) {
    top.in_flush = in.in_flush;
    top.push_valid = in.push_valid;
    wide(top.push_r, in.push_r);
    wide(top.push_k_inverse, in.push_k_inverse);
}

static void get(Vaom_hm&, Outputs&) {}

static void get(Vaom_pk& top, Outputs& out) {
    out.push_ready = top.push_ready;
    out.stock = top.stock;
}

// Sets the inputs, reads the outputs before the rising edge, then gives the edge.
template <class M> static void clock_once(Model<M>* model, const Inputs& in, Outputs& out) {
    M& top = *model->top;
    top.clk = 0;
    top.rst = in.rst;
    top.in_valid = in.in_valid;
    top.in_data = in.in_data;
    top.in_last = in.in_last;
    top.in_bytes = in.in_bytes;
    top.cfg_valid = in.cfg_valid;
    top.cfg_slot = in.cfg_slot;
    top.cfg_field = in.cfg_field;
    wide(top.cfg_data, in.cfg_data);
    top.out_ready = in.out_ready;
    set(top, in);
    top.eval();
    std::memset(&out, 0, sizeof out);
    out.in_ready = top.in_ready;
    out.cfg_ready = top.cfg_ready;
    out.drop_valid = top.drop_valid;
    out.drop_reason = top.drop_reason;
    out.out_valid = top.out_valid;
    out.out_data = top.out_data;
    out.out_last = top.out_last;
    out.out_bytes = top.out_bytes;
    get(top, out);
    top.clk = 1;
    top.eval();
}

extern "C" {
Model<Vaom_hm>* aom_hm_new(int seed) { return new Model<Vaom_hm>(seed); }
void aom_hm_free(Model<Vaom_hm>* model) { delete model; }
void aom_hm_clock(Model<Vaom_hm>* model, const Inputs* in, Outputs* out) { clock_once(model, *in, *out); }

Model<Vaom_pk>* aom_pk_new(int seed) { return new Model<Vaom_pk>(seed); }
void aom_pk_free(Model<Vaom_pk>* model) { delete model; }
void aom_pk_clock(Model<Vaom_pk>* model, const Inputs* in, Outputs* out) { clock_once(model, *in, *out); }

// Signs once after a reset. Returns the clocks from start to done, or 0 after 10,000 without an end.
uint32_t ecdsa_online_run(int seed, const uint32_t* z, const uint32_t* r, const uint32_t* k_inverse, const uint32_t* d, uint32_t* s) {
    Model<Vecdsa_online> model(seed);
    auto& top = *model.top;
    auto edge = [&] {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    };
    top.rst = 1;
    edge();
    top.rst = 0;
    wide(top.z, z);
    wide(top.r, r);
    wide(top.k_inverse, k_inverse);
    wide(top.d, d);
    top.start = 1;
    uint32_t clocks = 0;
    do {
        edge();
        top.start = 0;
        clocks++;
    } while (!top.done && clocks < 10000);
    for (int i = 0; i < 8; i++) s[i] = top.s[i];
    return top.done ? clocks : 0;
}
}
